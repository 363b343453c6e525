#!/bin/bash
set -e
cd /app
cat final.txt
echo 84 > info.txt
