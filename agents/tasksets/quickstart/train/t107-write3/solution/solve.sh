#!/bin/bash
set -e
cd /app
echo eagle > list.txt
echo 77 > final.txt
echo 93 > report.txt
