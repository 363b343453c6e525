#!/bin/bash
set -e
cd /app
echo 34 > data.txt
echo 58 > list.txt
