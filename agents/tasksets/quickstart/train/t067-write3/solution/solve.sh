#!/bin/bash
set -e
cd /app
echo wind > key.txt
echo robot > test.txt
echo 30 > log.txt
