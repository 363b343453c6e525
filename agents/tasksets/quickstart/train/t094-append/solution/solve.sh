#!/bin/bash
set -e
cd /app
echo 58 >> config.txt
echo angel > data.txt
