#!/bin/bash
set -e
cd /app
cat total.txt
echo wind > names.txt
