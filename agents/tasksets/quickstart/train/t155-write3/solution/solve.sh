#!/bin/bash
set -e
cd /app
echo 93 > report.txt
echo violin > final.txt
echo 60 > note.txt
