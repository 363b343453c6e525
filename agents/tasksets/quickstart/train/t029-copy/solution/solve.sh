#!/bin/bash
set -e
cd /app
cp key.txt report.txt
echo 42 > file.txt
