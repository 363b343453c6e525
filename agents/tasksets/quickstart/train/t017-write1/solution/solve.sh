#!/bin/bash
set -e
cd /app
echo 23 > total.txt
