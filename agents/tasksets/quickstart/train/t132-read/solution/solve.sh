#!/bin/bash
set -e
cd /app
cat start.txt
echo juice > data.txt
