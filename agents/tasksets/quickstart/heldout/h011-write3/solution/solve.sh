#!/bin/bash
set -e
cd /app
echo gentle > test.txt
echo arrow > index.txt
echo 80 > text.txt
