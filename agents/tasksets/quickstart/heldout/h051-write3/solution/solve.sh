#!/bin/bash
set -e
cd /app
echo brave > test.txt
echo shark > text.txt
echo 19 > log.txt
