#!/bin/bash
set -e
cd /app
echo apple > final.txt
echo 86 > log.txt
