#!/bin/bash
set -e
cd /app
cat text.txt
echo 84 > test.txt
