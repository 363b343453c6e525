#!/bin/bash
set -e
cd /app
echo fish > index.txt
echo 88 > total.txt
echo quick > plan.txt
