#!/bin/bash
set -e
cd /app
cp memo.txt out.txt
echo autumn > text.txt
