#!/bin/bash
set -e
cd /app
echo bright > data.txt
echo 14 > report.txt
