#!/bin/bash
set -e
cd /app
cat index.txt
echo 70 > file.txt
