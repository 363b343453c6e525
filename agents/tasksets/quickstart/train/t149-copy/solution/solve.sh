#!/bin/bash
set -e
cd /app
cp record.txt main.txt
echo copper > config.txt
