#!/bin/bash
set -e
cd /app
echo 19 > record.txt
echo 89 > index.txt
echo fish > list.txt
