#!/bin/bash
set -e
cd /app
cp total.txt test.txt
echo station > plan.txt
