#!/bin/bash
set -e
cd /app
echo 13 > value.txt
echo whale > names.txt
echo pillow > log.txt
