#!/bin/bash
set -e
cd /app
cat start.txt
echo 93 > text.txt
