#!/bin/bash
set -e
cd /app
echo water > report.txt
echo 56 > score.txt
echo cold > memo.txt
