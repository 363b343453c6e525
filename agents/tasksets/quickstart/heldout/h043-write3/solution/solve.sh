#!/bin/bash
set -e
cd /app
echo pencil > temp.txt
echo blue > report.txt
echo 39 > log.txt
