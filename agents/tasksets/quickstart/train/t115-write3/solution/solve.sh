#!/bin/bash
set -e
cd /app
echo coffee > total.txt
echo 75 > record.txt
echo island > page.txt
