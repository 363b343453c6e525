#!/bin/bash
set -e
cd /app
echo bridge > record.txt
echo spoon > names.txt
