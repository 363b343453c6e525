#!/bin/bash
set -e
cd /app
echo 92 >> temp.txt
echo 33 > plan.txt
