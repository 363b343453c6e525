#!/bin/bash
set -e
cd /app
echo temple > names.txt
echo apple > index.txt
