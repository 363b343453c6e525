#!/bin/bash
set -e
cd /app
echo 88 > file.txt
echo dance > item.txt
echo 78 > list.txt
