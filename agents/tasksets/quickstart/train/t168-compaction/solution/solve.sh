#!/bin/bash
set -e
cd /app
echo 64 > report.txt
echo water > copy.txt
echo 41 > index.txt
