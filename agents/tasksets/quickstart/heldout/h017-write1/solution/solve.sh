#!/bin/bash
set -e
cd /app
echo 30 > list.txt
