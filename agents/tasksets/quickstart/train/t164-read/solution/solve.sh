#!/bin/bash
set -e
cd /app
cat info.txt
echo 30 > main.txt
