#!/bin/bash
set -e
cd /app
echo cross > out.txt
echo 70 > list.txt
echo garden > data.txt
