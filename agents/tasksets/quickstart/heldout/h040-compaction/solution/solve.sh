#!/bin/bash
set -e
cd /app
echo copper > result.txt
echo 72 > test.txt
echo 23 > copy.txt
