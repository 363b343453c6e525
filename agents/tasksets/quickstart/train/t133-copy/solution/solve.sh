#!/bin/bash
set -e
cd /app
cp copy.txt info.txt
echo 96 > out.txt
