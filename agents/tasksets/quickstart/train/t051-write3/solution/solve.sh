#!/bin/bash
set -e
cd /app
echo mouse > info.txt
echo 58 > result.txt
echo clock > text.txt
