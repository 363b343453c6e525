#!/bin/bash
set -e
cd /app
cat text.txt
echo 60 > out.txt
