#!/bin/bash
set -e
cd /app
echo horse > test.txt
echo radio > index.txt
echo 73 > data.txt
