#!/bin/bash
set -e
cd /app
cat names.txt
echo potato > page.txt
