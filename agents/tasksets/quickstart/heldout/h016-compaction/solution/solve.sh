#!/bin/bash
set -e
cd /app
echo juice > item.txt
echo 94 > total.txt
echo station > score.txt
