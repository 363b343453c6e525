#!/bin/bash
set -e
cd /app
cp test.txt total.txt
echo rain > item.txt
