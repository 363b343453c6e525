#!/bin/bash
set -e
cd /app
echo 93 > record.txt
echo copper > file.txt
echo diamond > plan.txt
