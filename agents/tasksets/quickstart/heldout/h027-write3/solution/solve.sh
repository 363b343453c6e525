#!/bin/bash
set -e
cd /app
echo white > test.txt
echo wood > plan.txt
echo 74 > index.txt
