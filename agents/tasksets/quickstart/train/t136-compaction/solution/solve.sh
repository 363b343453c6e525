#!/bin/bash
set -e
cd /app
echo 82 > record.txt
echo 65 > copy.txt
echo station > info.txt
