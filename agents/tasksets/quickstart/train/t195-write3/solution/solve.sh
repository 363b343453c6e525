#!/bin/bash
set -e
cd /app
echo wine > plan.txt
echo paper > total.txt
echo 70 > main.txt
