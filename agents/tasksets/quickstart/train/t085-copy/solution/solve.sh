#!/bin/bash
set -e
cd /app
cp test.txt start.txt
echo paint > info.txt
