#!/bin/bash
set -e
cd /app
echo circle > final.txt
echo snow > file.txt
echo 27 > main.txt
