#!/bin/bash
set -e
cd /app
echo school > memo.txt
echo sugar > list.txt
