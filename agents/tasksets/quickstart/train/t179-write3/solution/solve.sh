#!/bin/bash
set -e
cd /app
echo prince > total.txt
echo valley > memo.txt
echo green > main.txt
