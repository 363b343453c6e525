#!/bin/bash
set -e
cd /app
cat temp.txt
echo mouse > main.txt
