#!/bin/bash
set -e
cd /app
cp info.txt notes.txt
echo 75 > report.txt
