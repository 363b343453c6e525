#!/bin/bash
set -e
cd /app
echo ghost > text.txt
echo 71 > result.txt
