#!/bin/bash
set -e
cd /app
echo 71 > names.txt
